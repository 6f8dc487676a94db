"""What people and CI read: HTML, Markdown, CSV, JUnit XML, badge."""
