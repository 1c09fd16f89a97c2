"""Measures runs and analyses them: where a step's time goes."""
