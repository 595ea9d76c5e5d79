"""MoldUDP64: numbered messages over multicast, and those who have them still."""
