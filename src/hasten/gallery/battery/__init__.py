"""Reading a battery's state of charge from a window of voltage, current and temperature."""
