"""maxent.app: the workflow of ``maxent.species`` in a browser (extra ``app``).

The page is a view of a folder: what it does, it does by running the ``maxent`` command there, and
what it shows, it reads from the files that the command wrote.

===============  =================================================================================
``folders.py``   the folders that were opened, and paths that stay inside them
``draft.py``     what was chosen so far, as a command and as a script
``example.py``   data to try the page with
``surveys.py``   records and layers looked at before a fit
``models.py``    what goes to the page and comes from it
``schema.py``    that it does so in no other form
``wording.py``   messages of the command in the page's words
``aside.py``     damaged files of the page's own folder
``uploads.py``   files that are brought
``files.py``     files of results, without the page's rights
``jobs.py``      commands that run in processes of their own
``runner.py``    what such a process does
``listing.py``   finished results in a list
``runs.py``      one of them, for the page
``tiles.py``     maps in tiles of numbers
``answers.py``   why a place is suitable
``safety.py``    who may ask: this machine, this page, with the token of the link
``routes.py``    addresses of all of these
``serving.py``   the server, on the loopback address
``page/``        the page itself, built from ``web/`` in the repository
===============  =================================================================================
"""
