"""The API and the management port. They meet the control thread in `port.ControlPlane` alone."""
