"""What strangers may send, and what others may reach: each promise of docs/security.md."""
