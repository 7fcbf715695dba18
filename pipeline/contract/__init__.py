"""What a broker is held to: rules and their exceptions, profiles of versions, known bugs, and what a finding weighs."""
