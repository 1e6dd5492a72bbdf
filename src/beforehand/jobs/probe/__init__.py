"""The counterfactual future: does a forecaster's answer at t depend on anything after t?"""
