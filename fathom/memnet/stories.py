"""Stories in the format of bAbI, told by a small world whose facts answer the questions."""

from collections.abc import Callable, Iterator

import numpy as np

PEOPLE = ("Daniel", "John", "Mary", "Sandra")
PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
OBJECTS = ("apple", "football", "milk")
MOVES = ("moved to", "went to", "went back to", "travelled to", "journeyed to")
GRABS = ("got", "grabbed", "took", "picked up")
DROPS = ("dropped", "put down", "left", "discarded")
ANIMALS = {"cat": "cats", "mouse": "mice", "sheep": "sheep", "wolf": "wolves"}
NAMES = ("Emily", "Gertrude", "Jessica", "Winona")
AGENTS = ("Antoine", "Jason", "Sumit", "Yann")
MOTIVES = {  # a state of mind, the place that it leads to, and the object that is taken there
    "bored": ("garden", "football"),
    "hungry": ("kitchen", "apple"),
    "thirsty": ("kitchen", "milk"),
    "tired": ("bedroom", "pajamas"),
}


class Story:
    """A story that is being told.

    Attributes:
        lines: what was said, in bAbI's format.
        questions: how many of the lines are questions.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.lines: list[str] = []
        self.questions = 0

    def pick(self, *choices: str) -> str:
        """Returns one of the choices."""
        return choices[self._rng.integers(len(choices))]

    def shuffled(self, choices: tuple[str, ...], count: int) -> list[str]:
        """Returns ``count`` different ones of the choices."""
        return [choices[i] for i in self._rng.permutation(len(choices))[:count]]

    def tell(self, sentence: str) -> int:
        """Adds a statement; returns its number."""
        self.lines.append(f"{len(self.lines) + 1} {sentence}.")
        return len(self.lines)

    def ask(self, question: str, answer: str, *support: int) -> None:
        """Adds a question with the numbers of the statements that its answer follows from."""
        facts = " ".join(map(str, support))
        self.lines.append(f"{len(self.lines) + 1} {question}? \t{answer}\t{facts}")
        self.questions += 1


def many(write: Callable[[Story], None], questions: int, rng: np.random.Generator) -> str:
    """Returns stories with so many questions in all, as the text of a file."""
    lines: list[str] = []
    while questions > 0:
        story = Story(rng)
        write(story)
        while story.questions > questions:  # the last story ends with the last question
            story.questions -= "\t" in story.lines.pop()
        questions -= story.questions
        lines += story.lines
    return "".join(f"{line}\n" for line in lines)


def single_supporting_fact(story: Story) -> None:
    """Task 1: where is a person who moved before?"""
    for person, place, line in _whereabouts(story):
        story.ask(f"Where is {person}", place, line)


def two_supporting_facts(story: Story) -> None:
    """Task 2: where is an object that a person carries, or has left?"""
    seen: dict[str, tuple[str, int]] = {}
    held: dict[str, tuple[str, int]] = {}  # object: person and line
    left: dict[str, tuple[str, tuple[int, int]]] = {}  # object: place and lines
    for person in PEOPLE[:2]:
        _move(story, seen, person)
    while story.questions < 5:
        for _ in range(3):
            _handle(story, seen, held, left)
        known = {name: (seen[who][0], (line, seen[who][1])) for name, (who, line) in held.items()}
        known |= left
        if known:
            name = story.pick(*known)
            place, support = known[name]
            story.ask(f"Where is the {name}", place, *support)


def yes_no_questions(story: Story) -> None:
    """Task 6: is a person in a place?"""
    for person, place, line in _whereabouts(story):
        asked = story.pick(place, story.pick(*PLACES))
        story.ask(f"Is {person} in the {asked}", "yes" if asked == place else "no", line)


def basic_deduction(story: Story) -> None:
    """Task 15: whom is somebody afraid of, being an animal of a kind that is afraid?"""
    kinds = tuple(ANIMALS)
    feared = {kind: story.pick(*(k for k in kinds if k != kind)) for kind in kinds}
    kind_of = {name: story.pick(*kinds) for name in NAMES}
    facts: dict[str, int] = {}
    for subject in story.shuffled((*kinds, *NAMES), len(kinds) + len(NAMES)):
        if subject in feared:
            plural = ANIMALS[subject].capitalize()
            facts[subject] = story.tell(f"{plural} are afraid of {ANIMALS[feared[subject]]}")
        else:
            facts[subject] = story.tell(f"{subject} is a {kind_of[subject]}")
    for name in story.shuffled(NAMES, len(NAMES)):
        kind = kind_of[name]
        question = f"What is {name.lower()} afraid of"
        story.ask(question, feared[kind], facts[name], facts[kind])


def agents_motivations(story: Story) -> None:
    """Task 20: where will a person of some state of mind go, and why did they?"""
    for agent in story.shuffled(AGENTS, 3):
        motive = story.pick(*MOTIVES)
        place, thing = MOTIVES[motive]
        because = story.tell(f"{agent} is {motive}")
        story.ask(f"Where will {agent.lower()} go", place, because)
        story.tell(f"{agent} {story.pick(*MOVES)} the {place}")
        story.ask(f"Why did {agent.lower()} go to the {place}", motive, because)
        story.tell(f"{agent} {story.pick(*GRABS)} the {thing} there")
        story.ask(f"Why did {agent.lower()} get the {thing}", motive, because)


def _whereabouts(story: Story) -> Iterator[tuple[str, str, int]]:
    """Moves people, and after every second move tells of one where they are, and since which line.

    The next move is told when the next one is asked for.
    """
    seen: dict[str, tuple[str, int]] = {}
    for _ in range(5):
        for _ in range(2):
            _move(story, seen)
        person = story.pick(*seen)
        yield person, *seen[person]


def _move(story: Story, seen: dict[str, tuple[str, int]], person: str | None = None) -> None:
    """Moves a person to a place where they are not."""
    person = person or story.pick(*PEOPLE)
    here = seen.get(person, ("", 0))[0]
    place = story.pick(*(p for p in PLACES if p != here))
    seen[person] = place, story.tell(f"{person} {story.pick(*MOVES)} the {place}")


def _handle(
    story: Story,
    seen: dict[str, tuple[str, int]],
    held: dict[str, tuple[str, int]],
    left: dict[str, tuple[str, tuple[int, int]]],
) -> None:
    """Lets somebody move, take an object that lies where they are, or put one down."""
    person = story.pick(*seen)
    here, arrived = seen[person]
    within_reach = [name for name in OBJECTS if name not in held]
    within_reach = [name for name in within_reach if left.get(name, (here,))[0] == here]
    carried = [name for name, (who, _) in held.items() if who == person]
    action = story.pick("move", "take", "drop")
    if action == "take" and within_reach:
        name = story.pick(*within_reach)
        left.pop(name, None)
        held[name] = person, story.tell(f"{person} {story.pick(*GRABS)} the {name} there")
    elif action == "drop" and carried:
        name = story.pick(*carried)
        del held[name]
        line = story.tell(f"{person} {story.pick(*DROPS)} the {name} there")
        left[name] = here, (line, arrived)
    else:
        _move(story, seen)


TASKS: dict[str, Callable[[Story], None]] = {
    "qa1_single-supporting-fact": single_supporting_fact,
    "qa2_two-supporting-facts": two_supporting_facts,
    "qa6_yes-no-questions": yes_no_questions,
    "qa15_basic-deduction": basic_deduction,
    "qa20_agents-motivations": agents_motivations,
}
