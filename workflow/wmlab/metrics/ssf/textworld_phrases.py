"""What a TextWorld ``tw-simple`` game prints, as patterns over case-folded, single-spaced text.

The sentences are those of TextWorld's ``house`` grammar and of its Inform 7 templates. Every quantifier
is bounded (``NAME`` 60 characters, ``LIST`` 300), so a failed match costs a constant, whatever the text.
"""

from __future__ import annotations

NAME = r"[a-z0-9][^.,!?;:()<>=\[\]]{0,59}?"
WORDS = r"[^.!?()<>=\[\]]{1,100}?"
LIST = r"[^.!?()<>=\[\]]{1,300}?"
DIRECTION = r"(?P<dir>north|south|east|west)"
END = r"(?= ?[.,!?]| ?$| > ?-= )"
"""What may follow a sentence: punctuation, the end, or the prompt (some sentences have no full stop)."""
LIST_END = r"(?=[.!?]|, so (?:there|why)| ?$| > ?-= )"
HERE = r"(?: (?:here|in the room|nearby|close by|in the corner|right there by you))?"
OPEN = r"(?:open|opened|closed|locked|unlocked)"

MAKE_OUT = r"you (?:can )?(?:suddenly )?(?:see|make out)"
DISCOVERIES = (
    r"you see a gleam over in a corner, where you can see",
    r"what's that over there\? it looks like it's",
    r"you scan the room, seeing",
    r"you smell an? [a-z]{1,20} smell, and follow it to",
    rf"were you looking for an? (?P<also>{NAME})\? because look over there, it's",
    r"you rest your hand against a wall, but you miss the wall and fall onto",
    rf"you scan the room for an? (?P<also>{NAME}), and you find",
    r"you hear a noise behind you and spin around, but you can't see anything other than",
    r"look out! it's a- oh, never mind, it's just",
    rf"hey, want to see an? (?P<also>{NAME})\? look over there,",
    r"(?:look over there!|wow! look at that!)",
    r"oh, great\. here's",
    r"if you haven't noticed it already, there seems to be something there by the wall, it's",
    r"you bend down to tie your shoe\. when you stand up, you notice",
    r"oh wow! is that what i think it is\? it is! it's",
    r"you lean against the wall, inadvertently pressing a secret button\. the wall opens up to reveal",
    r"as if things weren't amazing enough already, you can even see",
    MAKE_OUT,
)
ENTERED = r"(?:entered|walked into|fallen into|moved into|stumbled into|come into|shown up in|sauntered into)"
BE_IN = r"(?:are|find yourself|arrive) in"
ROOM = rf"(?P<room>{NAME})"
ROOM_OPENINGS = (
    rf"i am [a-z ]{{1,20}} to announce that you are now in the {ROOM}{END}",
    rf"ah, the {ROOM}\. this is some kind of {NAME}, really great {NAME} vibes in this place, "
    rf"a wonderful {NAME} atmosphere(?:\. and now, well, you're in it)?{END}",
    rf"okay, so you're in an? {ROOM}, cool, but is it {NAME}\? you better believe it is{END}",
    rf"(?:guess what|well how about that|well i'll be), you are in (?:a|the) place we're calling (?:an?|the) {ROOM}{END}",
    rf"well, here we are in (?:an?|the) {ROOM}{END}",
    rf"you've {ENTERED} an? {NAME} room\. your mind races to think of what kind of room would be {NAME}\. "
    rf"and then it hits you\. of course\. you're in the {ROOM}{END}",
    rf"(?:you're now in|you've (?:just )?{ENTERED}) (?:an?|the) {ROOM}{END}",
    rf"this might come as a shock to you, but you've just {ENTERED} an? {ROOM}{END}",
    rf"you have {ENTERED} the most {NAME} of all possible {ROOM}s{END}",
    rf"of every {ROOM} you could have {ENTERED}, you had to [a-z ]{{1,15}} an? {NAME} one{END}",
    rf"you have {ENTERED} an? {NAME}\. not the {NAME} you'd expect\. no, this is an? {ROOM}{END}",
    rf"you {BE_IN} an? {NAME} kind of place\. that is to say, you're in an? {ROOM}{END}",
    rf"you {BE_IN} an? {ROOM}\. (?:it seems to be pretty {NAME} here|an? {NAME} (?:one|kind of place)){END}",
    rf"you {BE_IN} an? {ROOM}{END}",
    rf"if you're wondering why everything seems so {NAME} all of a sudden, it's because you've just {ENTERED} the {ROOM}{END}",
    rf"fancy seeing you here\. here, by the way, being the {ROOM}{END}",
    rf"i never took you for the sort of person who would show up in an? {ROOM}, but i guess i was wrong{END}",
    rf"(?:this is going to sound unbelievable|you're not going to believe this), but you've just entered an? {ROOM}{END}",
    rf"you make (?:a grand eccentric entrance|another one of your grand eccentric entrances) into an? {ROOM}{END}",
    rf"look at you, bigshot, walking into an? {ROOM} like it isn't some huge deal{END}",
    rf"look around you\. take it all in\. it's not every day someone gets to be in an? {ROOM}{END}",
    rf"you've seen better {ROOM}s, but at least this one seems pretty {NAME}{END}",
    rf"i just think it's (?:awesome|great) that (?:you're in|you've just entered) an? {ROOM}(?: now)?{END}",
    rf"an? {NAME} (?:sign|placard|notice|signboard|board) tells you that you are now in the {ROOM}{END}",
    rf"look at that {NAME}! what does it say\? it says welcome to the {ROOM}\? well that's cool{END}",
    rf"this just in- you, in the {ROOM}{END}",
    rf"welcome to the {ROOM}{END}",
    rf"wow! you're in an? {ROOM}{END}",
    rf"here we are in the {ROOM}{END}",
    rf"this {ROOM} you have just entered is definitely {NAME}{END}",
)
EMPTY_IT = (
    r"(?:but|unfortunately,) there isn't a thing on it",
    r"but the thing is empty(?:, unfortunately)?",
    r"but the thing hasn't got anything on it",
    r"but oh no! there's nothing on this piece of (?:trash|garbage|junk)",
    r"looks like someone's already been here and taken everything off it, though",
    r"empty! what kind of nightmare textworld is this",
)
DECORATION = (
    r"okay, just remember what you're here to do, and everything will go great",
    r"you can barely contain your excitement",
    r"the room seems oddly familiar, as though it were only superficially different from the other rooms in the building",
    r"you decide to just list off a complete list of everything you see in the room, because hey, why not",
    r"i guess you better just go and list everything you see here",
    r"you (?:start to take note|begin to take stock) of what's (?:in the room|here)",
    r"you decide to start listing off everything you see in the room, as if you were in a text adventure",
    r"the room is well lit",
    r"you begin looking for stuff",
    r"let's see what's in here",
    rf"you shudder, but continue examining the {NAME}",
    r"you wonder idly who (?:left that|put this stuff) here",
    r"now why would someone leave that there",
    r"there's something strange about this (?:thing |stuff )?being here, but you (?:can't put your finger on it|don't have time to worry about that now)",
    r"huh, weird",
    r"so there's that",
    r"hmmm\.\.\. what else, what else",
    r"(?:i mean, just wow!|wow,) isn't textworld just the best",
    r"isn't textworld just the best",
    r"you can't wait to tell the folks at home about this",
    r"something scurries by right in the corner of your eye\. probably nothing",
    r"you idly wonder how they came up with the name textworld for this place\. it's pretty fitting",
    r"suddenly, you bump your head on the ceiling, but it's not such a bad bump that it's going to prevent you from looking at objects and even things",
    r"now that's what i call textworld",
    r"classic textworld",
    r"the light flickers for a second, but nothing else happens",
    r"wow! just like in the movies",
    r"it doesn't get (?:any )?more textworld than this",
    r"there's something about an object in a room that's just so\.\.\. textworld",
    r"does this look like anything mentioned in the instructions",
    r"what a great pairing of adjectives and nouns",
    r"make a note of this, you might have to put stuff on or in it later on",
    rf"an? {NAME}\.\.\. is that really what you were looking for",
    rf"is this it\? is this what you came to textworld to see\? an? {NAME}{END}",
    rf"hmm\. you always thought you'd be more excited to see an? {NAME} in a room",
    rf"is this what you came to textworld for\? this\.\.\. {NAME}{END}",
    r"you look around you, at all the containers and supporters, doors and objects, and you think to yourself\. why\? why textworld",
    r"you (?:check|look at) the price tag [^.!?]{1,80}",
    r"wow, check out the price tag [^.!?]{1,80}",
    r"(?:[a-z]{2,8}|two hundred|three hundred|a hundred|\d{1,3}) (?:dollars|bucks|big ones)",
    r"that's ridiculous",
    r"what a deal! you'll have to ask where they got this",
    r"where'd they buy this [^.!?]{1,80}",
    r"(?:you know|do you know|did you ever meet|you ever meet) my [a-z ]{1,20}, they work for [a-z ]{1,30}",
    r"i'm sure my friend could get you one of those for [^.!?]{1,40}",
    r"(?:i know a|i got this|i have a|you know, i know a|you know, i got a|you know what, i've got a) [^.!?]{1,90} who could get you one of those for [^.!?]{1,40}",
    r"why don't you take a picture of it, it'll last longer",
    r"so why not take a picture, it'll last longer",
    rf"i guess it's true what they say, if you're looking for an? {NAME}, go to textworld",
    rf"what a coincidence, weren't you just thinking about an? {NAME}{END}",
    r"you move on, clearly [a-z ]{1,20} (?:your textworld experience|textworld)",
    r"sometimes, just sometimes, textworld can just be the worst",
    rf"what's the point of an empty {NAME}{END}",
    r"hopefully this doesn't make you too upset",
    rf"you make a mental note to not get your hopes up the next time you see an? {NAME} in a room",
    r"hopefully, this discovery doesn't ruin your textworld experience",
    r"you swear loudly",
    r"this always happens(?:, here in textworld)?",
    rf"silly {NAME}, silly, empty, good for nothing {NAME}{END}",
    rf"you think about smashing the {NAME} to bits, throwing the bits [a-z ]{{1,20}}, etc, until you get bored",
    r"aw, (?:and )?here you were, all excited for there to be things on it",
    r"oh! why couldn't there just be stuff on it",
    r"what, you think everything in textworld should have stuff on it",
    rf"it would have been so cool if there was stuff on the {NAME}(?:! oh well)?{END}",
)
DECORATION_WITHOUT_STOP = (
    r"you try to gain information on your surroundings by using a technique you call [\"']looking\.?[\"'](?= |$)",
    r"hm\. oh well(?= |$)",
)
REFUSALS = (
    rf"(?:you|i) (?:can't|cannot|can only|couldn't|didn't|must|need to|have to|haven't|aren't|are not|do not|don't|already|seem to|lack|only understood){WORDS}{END}",
    rf"(?:that's|that|those|there's|nothing|sorry|please) {WORDS}{END}",
    rf"it (?:isn't something|is fixed) {WORDS}{END}",
    rf"putting things {WORDS}{END}",
    rf"(?:you|i) (?:find nothing|beg your) {WORDS}{END}",
    rf"(?:there is no|what do you|which do you) {WORDS}{END}",
    rf"the [a-z-]{{1,20}} (?:isn't|is already|doesn't|can't) {WORDS}{END}",
)
