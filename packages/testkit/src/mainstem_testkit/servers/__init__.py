"""Real servers as processes of their own, on free ports of this machine."""
