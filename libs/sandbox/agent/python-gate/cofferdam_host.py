"""The host's own sitecustomize, which the gate shadows.

It must run after the wait, because it may look at the program's variables and arguments. Debian's does
nothing without apport, so it runs before the wait. If the host has no such module, the search for it is made
before the wait. That saves 0.2 to 0.4 ms.
"""
import os
import sys


class Host:
    """Finds the host's module before the wait, while the name `sitecustomize` still belongs to the gate.
    Installs it after the wait.
    """

    DEBIAN = (
        b"# install the apport exception handler if available\n"
        b"try:\n    import apport_python_hook\nexcept ImportError:\n    pass\nelse:\n    apport_python_hook.install()\n"
    )

    def __init__(self):
        self.module = self.path = None
        find = sys.modules["_frozen_importlib_external"].PathFinder.find_spec
        spec = find("sitecustomize")
        if spec is not None:
            with open(spec.origin, "rb") as source:
                if source.read(len(self.DEBIAN) + 1) != self.DEBIAN or find("apport_python_hook") is not None:
                    return
            gate = sys.modules.pop("sitecustomize")
            try:
                import sitecustomize

                self.module = sitecustomize
            finally:
                sys.modules["sitecustomize"] = gate
        self.has_user = find("usercustomize") is not None
        self.path = list(sys.path)

    def take_place(self):
        """Installs the host's module; raises ModuleNotFoundError if there is none. False when the caller must
        import it now."""
        if self.path != sys.path:
            return False
        if not self.has_user:
            self.skip_user()
        if self.module is None:
            raise ModuleNotFoundError("No module named 'sitecustomize'", name="sitecustomize")
        sys.modules["sitecustomize"] = self.module
        return True

    def skip_user(self):
        """`site` looks for a usercustomize next. There is none, so that search is skipped once."""
        site = sys.modules["site"]
        look = getattr(site, "execusercustomize", None)
        if site.ENABLE_USER_SITE and look is not None:

            def skip():
                site.execusercustomize = look

            site.execusercustomize = skip
