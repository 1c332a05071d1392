"""What stands out in the figures of a page, as sentences with the figures they state.

In: the frames that the report and the pages show. Out: findings, ranked. No figure is computed here a second time.
"""
