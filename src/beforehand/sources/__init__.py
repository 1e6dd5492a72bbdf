"""Outside services, pure: what their responses mean as records. No sockets, no clock."""
