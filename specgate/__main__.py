"""`python -m specgate`: the same as the command `specgate`."""

from specgate.cli.main import main

if __name__ == "__main__":
    main(prog_name="specgate")
