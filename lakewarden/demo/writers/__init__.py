"""Live writers, one per format. Lakewarden works beside them in the demo and in its tests."""
