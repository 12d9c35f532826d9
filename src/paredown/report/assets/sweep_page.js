// The page of a sweep is drawn in Python; there is nothing left to do but to say that it is ready.
document.body.dataset.ready = "yes";
