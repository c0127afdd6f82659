"""Looking at a run: the files of a run folder read lazily, a local web page, one HTML file.

`runs` finds the runs of a folder, `index` keeps one summary per episode, `reading` gives one whole
episode. None of it changes anything in the folder, and all of it copes with a run that goes on.
"""
