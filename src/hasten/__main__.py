from hasten.cli.main import main

main()
