/** Files that an execution returns, and those that it left out. */
import { z } from 'zod'
import { BOUNDS } from './limits.ts'

export const artifactSchema = z.strictObject({
  path: z.string().meta({ description: 'Relative to the work directory.', example: 'out/report.csv' }),
  size: z.int().min(0).meta({ description: 'Bytes.', example: 1024 }),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .meta({
      description: 'SHA-256 of the content, in lowercase hex.',
      example: '5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03',
    }),
})
export type Artifact = z.infer<typeof artifactSchema>

/** Why a matching file is not an artifact. */
export const ARTIFACT_OMISSIONS = [
  'too_large',
  'total_too_large',
  'too_many',
  'unsafe_name',
  'unreadable',
  'not_stored',
  'out_of_time',
] as const

/** A file that matched `artifacts` and is not an artifact. */
export const omittedArtifactSchema = z.strictObject({
  path: z.string().max(BOUNDS.pathLength).meta({
    description: 'Relative to the work directory.',
    example: 'out/video.mp4',
  }),
  size: z.int().min(0).meta({ description: 'Bytes, as the sandbox reported.', example: 90_000_000 }),
  reason: z.enum(ARTIFACT_OMISSIONS).meta({
    description:
      'too_large, total_too_large, too_many: it exceeds limits.artifact_bytes, artifacts_total_bytes or ' +
      'artifact_count. unsafe_name: its path is too long or not UTF-8. unreadable: the sandbox did not ' +
      'deliver it. not_stored: writing it to the store failed. out_of_time: collecting ended before it ' +
      'was reached.',
  }),
})
export type OmittedArtifact = z.infer<typeof omittedArtifactSchema>
