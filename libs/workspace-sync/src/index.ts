/** Carries a workspace of files into sandboxes and merges back what changed there, losing nothing. */
export { ArchiveRefusal, type ArchiveRefusalReason } from './archive-refusal.ts'
export { carryBack, type CarryBackInput } from './carry-back.ts'
export { baseOf, carryIn, type CarriedIn } from './carry-in.ts'
export { readDirectory, type ReadDirectory } from './directory.ts'
export { BLACKLIST } from './guarded-names.ts'
export { DEFAULT_ARCHIVE_LIMITS, type ArchiveLimits } from './limits.ts'
export { diffManifests, EMPTY_MANIFEST, factsOf, manifestOf, revisionOf, sha256Of } from './manifest.ts'
export { merge, type MergeInput, type MergeRefusal, type MergeResult } from './merge.ts'
export { packArchive } from './pack-archive.ts'
export { isCarriable } from './path-index.ts'
export {
  DEFAULT_WHITELIST,
  refuseBlacklisted,
  rulesOfWhitelist,
  whitelistEntry,
  whitelistWarnings,
} from './polyclaw-whitelist.ts'
export { compileRules, isControl, isNever, type CompiledRules } from './rules.ts'
export { unpackArchive } from './unpack-archive.ts'
export { writeDirectory } from './write-directory.ts'
