"""Jobs: each kind turns a request into a Plan of Steps, and brings the actions for them."""
