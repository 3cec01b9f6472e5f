"""State, graph, machine, journal and engine. Not public: import from `flowagent`."""
