"""Figures of a report counted again from its folder, by code that shares nothing with Fathom's."""
