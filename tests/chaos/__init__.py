"""What a store goes through: disks that fail or lose power, full disks, rivals, frozen owners, clocks that jump."""
