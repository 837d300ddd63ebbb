"""What a person asks of a fit: settings, and the data that they are for, accepted before anything is planned."""
