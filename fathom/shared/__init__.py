"""What workloads share that not all of them need: translation, language models, attention."""
