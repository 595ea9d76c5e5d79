"""`python -m mainstem` is `mainstem`."""

from mainstem.cli.app import main

if __name__ == "__main__":
    main()
