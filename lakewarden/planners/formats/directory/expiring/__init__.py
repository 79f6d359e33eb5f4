"""Which partitions have expired, and which parts are orphans."""
