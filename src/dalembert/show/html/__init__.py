"""One page of HTML for a result: `report` is the door, page.css and page.js are its looks and its motion."""
