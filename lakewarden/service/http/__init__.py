"""The API and the management port. They use the control thread only through `port.ControlPlane`."""
