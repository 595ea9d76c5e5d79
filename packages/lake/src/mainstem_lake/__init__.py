"""Tables of a data lake: what sinks and sources of any table format share."""
