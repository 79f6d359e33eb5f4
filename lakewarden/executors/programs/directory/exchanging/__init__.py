"""How a folder of new files takes the place of a partition, in one act of the kernel, and what a kill leaves to do."""
