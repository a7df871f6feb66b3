-- Purpose: promote what is due and release what fits into the window.
-- KEYS[1]  any key of the tag (routing)
-- Returns  releases: list of {id, lane, release, priority}
-- Invariants: see include/pick.lua.
-- Complexity: O((promoted + released) * log n), bounded by C.promote_max and C.pick_max.
--- @include clock
--- @include pick
return pick(now_ms())
