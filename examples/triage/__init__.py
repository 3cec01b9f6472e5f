"""Support-ticket triage: a folder of tickets in many shapes becomes sorted, answered tickets and a report.

    python -m examples.triage --help        run it
    flowagent demo                          watch it being killed and resumed

`graphs.py` holds the two graphs and is the file to read; the modules it imports are plain functions that know
nothing of flowagent.
"""
