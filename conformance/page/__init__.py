"""What is made of the rows of a run: a page, a coverage matrix, JUnit XML, a badge.

``python -m conformance.page RUN`` makes all of it again from the rows of a run, finished or cut off.
"""
