"""From a look that is due to a run that asks for permits: polling, deciding, requesting, running."""
