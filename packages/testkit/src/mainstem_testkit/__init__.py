"""A pytest plugin to prove Mainstem plugins: real servers, faults and kills on demand."""
