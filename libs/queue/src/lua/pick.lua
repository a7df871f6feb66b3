-- Purpose: promote what is due and release executions into the window.
-- KEYS[1]  any key of the tag (routing)
-- Returns  {'ok'}
-- Invariants: see include/pick.lua.
-- Complexity: O((promoted + released) * log n), bounded by C.promote_max and C.pick_max.
--- @include clock
--- @include pick
pick(now_ms())
return { 'ok' }
