/** Where full outputs and artifacts lie: a directory, or a bucket of an object store. */
import path from 'node:path'
import { z } from 'zod'
import type { ConfigField, ConfigOf } from './read-config.ts'

/** Allows the bucket names of S3, and prefixes whose characters no store has to encode. */
const FOLDER = '[A-Za-z0-9_][A-Za-z0-9._-]{0,99}'
const BUCKET_URL = new RegExp(
  `^s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(${FOLDER}(?:/${FOLDER}){0,5}))?/?$`,
)

const bucketUrl = z
  .string()
  .transform((text, context) => {
    const [, bucket, prefix = ''] = BUCKET_URL.exec(text) ?? []
    if (bucket !== undefined) return { bucket, prefix }
    context.addIssue('expected s3://bucket or s3://bucket/prefix, of lower-case letters, digits, . and -')
    return z.NEVER
  })
  .optional()

export const BLOB_FIELDS = {
  blobs: {
    variable: 'COFFERDAM_BLOBS',
    schema: bucketUrl,
    description:
      'Bucket of full outputs, artifacts and kept programs, on S3 or a compatible store; API and workers ' +
      'share it. Credentials come from the AWS SDK: AWS_ACCESS_KEY_ID, a profile, a role. Unset: the ' +
      'folder `blobs` of the data directory.',
    example: 's3://my-bucket/cofferdam',
  },
  blobsEndpoint: {
    variable: 'COFFERDAM_BLOBS_ENDPOINT',
    schema: z.url({ protocol: /^https?$/, error: 'expected an http or https URL' }).optional(),
    description: 'Address of the object store; unset: Amazon S3.',
    example: 'https://minio.example.com:9000',
  },
  blobsRegion: {
    variable: 'COFFERDAM_BLOBS_REGION',
    schema: z
      .string()
      .regex(/^[A-Za-z0-9-]{1,64}$/, 'expected a region such as eu-central-1')
      .optional(),
    description: 'Region of the bucket; unset: the one of the AWS SDK (AWS_REGION, a profile).',
    example: 'eu-central-1',
  },
  blobsPathStyle: {
    variable: 'COFFERDAM_BLOBS_PATH_STYLE',
    schema: z
      .enum(['true', 'false'], { error: 'expected true or false' })
      .transform((text) => text === 'true')
      .optional(),
    description:
      'Whether the bucket is in the path of a URL and not in its host name. Default: true if ' +
      'COFFERDAM_BLOBS_ENDPOINT is set.',
    example: 'true',
  },
} as const satisfies Record<string, ConfigField>

/** Where the store puts blobs, by the configuration of an app. */
export function blobPlaceOf(config: ConfigOf<typeof BLOB_FIELDS> & { dataDir: string }) {
  const { dataDir, blobs, blobsEndpoint: endpoint, blobsRegion: region, blobsPathStyle } = config
  const blobDir = path.join(dataDir, 'blobs')
  if (blobs === undefined) return { blobDir }
  return {
    blobDir,
    bucket: { ...blobs, endpoint, region, pathStyle: blobsPathStyle ?? endpoint !== undefined },
  }
}
