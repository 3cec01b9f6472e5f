"""What all tests share. Tiny graphs belong into the test that reads them."""

from hypothesis import settings

# No deadline: the time of one example says more about the machine's other work than about us. The rest is
# hypothesis' own choice, which on CI means the same examples every time.
settings.register_profile("flowagent", settings.default, deadline=None)
settings.load_profile("flowagent")
