"""The HTTP service of semclass, its page, and a server of the Model Context Protocol."""
