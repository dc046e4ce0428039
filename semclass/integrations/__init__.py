"""What plugs semclass into frameworks; each module needs the extra of its name, and none is imported unasked."""
