--- @include pick
-- Where nobody waits there is nobody to pick after an ending. Nothing of what settle does then changes that, so the calls of one script
-- ask once. False from the first one on that may have.
local calm
local function still_calm(now)
  if calm == nil then calm = nobody_waits(now) end
  return calm
end
