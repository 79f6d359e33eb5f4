"""Live writers, one per format: what Lakewarden works beside, in the demo and in its tests."""
