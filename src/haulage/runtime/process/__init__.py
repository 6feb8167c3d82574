"""What the process as a whole needs: giving things back, observers, who asked for something."""
