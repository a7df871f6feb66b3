import { expect, it } from 'vitest'
import { BLOB_FIELDS, blobPlaceOf } from './blob-fields.ts'
import { readConfig } from './read-config.ts'

const placeOf = (env: Record<string, string>) =>
  blobPlaceOf({ ...readConfig(BLOB_FIELDS, env).config, dataDir: '/data' })

it('blobs lie below the data directory by default', () => {
  expect(placeOf({})).toEqual({ blobDir: '/data/blobs' })
  expect(placeOf({ COFFERDAM_BLOBS_ENDPOINT: 'http://127.0.0.1:9000' })).toEqual({ blobDir: '/data/blobs' })
})

it.each([
  ['s3://my-bucket', ''],
  ['s3://my-bucket/', ''],
  ['s3://my-bucket/a/b-c', 'a/b-c'],
  ['s3://my-bucket/a/', 'a'],
])('%s names a bucket and a prefix', (text, prefix) => {
  expect(placeOf({ COFFERDAM_BLOBS: text }).bucket).toEqual({
    bucket: 'my-bucket',
    prefix,
    endpoint: undefined,
    region: undefined,
    pathStyle: false,
  })
})

it('the bucket is in the path of an endpoint, unless the configuration says otherwise', () => {
  const env = { COFFERDAM_BLOBS: 's3://my-bucket', COFFERDAM_BLOBS_ENDPOINT: 'https://s3.example.com' }
  expect(placeOf(env).bucket?.pathStyle).toBe(true)
  expect(placeOf({ ...env, COFFERDAM_BLOBS_PATH_STYLE: 'false' }).bucket?.pathStyle).toBe(false)
})

it.each([
  'my-bucket',
  's3://',
  's3://My_Bucket',
  's3://my-bucket/a b',
  's3://my-bucket/../x',
  's3://my-bucket//x',
  'gs://my-bucket',
])('refuses %s and shows an example', (text) => {
  expect(() => placeOf({ COFFERDAM_BLOBS: text })).toThrow(/COFFERDAM_BLOBS: .*example: s3:\/\/my-bucket/)
})
