"""`python -m mainstem` is `mainstem`."""

from mainstem.cli.app import main

main()
