// Pages of sweeps and comparisons are drawn in Python; there is nothing left to do but to say that they are ready.
document.body.dataset.ready = "yes";
