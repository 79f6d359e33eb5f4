"""From a due observation to a run that asks for permits: polling, deciding, requesting, running."""
