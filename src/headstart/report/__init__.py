"""Tables, plots and one page made from the store; nothing here trains."""
