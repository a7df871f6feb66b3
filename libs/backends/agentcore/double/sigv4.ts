/** Checks Signature Version 4: always the form, and the signature itself if the secret is known. */
import { createHash, createHmac } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const FORM =
  /^AWS4-HMAC-SHA256 Credential=([A-Za-z0-9]+)\/(\d{8})\/([a-z0-9-]+)\/([a-z0-9-]+)\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/
/** The service refuses a request whose clock differs by more than this. */
const SKEW_MS = 15 * 60_000

export interface Secrets {
  accessKeyId: string
  secretAccessKey: string
}

/** Returns why the service would refuse a request, or null. Null `secrets`: only the form is checked. */
export function refusal(
  request: IncomingMessage,
  body: Buffer,
  { service, secrets }: { service: string; secrets: Secrets | null },
): string | null {
  const parts = FORM.exec(request.headers.authorization ?? '')
  if (parts === null) return 'Missing Authentication Token'
  const [, accessKeyId = '', day = '', region = '', scoped = '', signed = '', signature = ''] = parts
  if (scoped !== service)
    return `Credential should be scoped to correct service: '${service}', not '${scoped}'.`
  const date = String(request.headers['x-amz-date'])
  const at = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date)
  if (at === null || !date.startsWith(day)) return 'Date in Credential scope does not match x-amz-date.'
  const [year = 0, month = 0, dayOfMonth = 0, hour = 0, minute = 0, second = 0] = at.slice(1).map(Number)
  if (Math.abs(Date.UTC(year, month - 1, dayOfMonth, hour, minute, second) - Date.now()) > SKEW_MS)
    return 'Signature expired.'
  const names = signed.split(';')
  if (!['host', 'x-amz-date'].every((name) => names.includes(name)))
    return 'host and x-amz-date must be signed.'
  if (secrets === null) return null
  if (accessKeyId !== secrets.accessKeyId) return 'The security token included in the request is invalid.'
  const scope = `${day}/${region}/${service}/aws4_request`
  const should = canonical(request, body, names)
  const text = ['AWS4-HMAC-SHA256', date, scope, sha256(should)].join('\n')
  const key = [day, region, service, 'aws4_request'].reduce<Buffer | string>(
    hmac,
    `AWS4${secrets.secretAccessKey}`,
  )
  return hmac(key, text).toString('hex') === signature
    ? null
    : // All that was signed comes back, its security token included, as the real service has it.
      `The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method.\n\nThe Canonical String for this request should have been\n'${should}'\n\nThe String-to-Sign should have been\n'${text}'\n`
}

function canonical(request: IncomingMessage, body: Buffer, names: readonly string[]): string {
  const [path = '/', query = ''] = (request.url ?? '/').split('?')
  const headers = names.map(
    (name) =>
      `${name}:${String(request.headers[name] ?? '')
        .trim()
        .replaceAll(/ +/g, ' ')}\n`,
  )
  return [
    request.method,
    // Every service except S3 encodes the path a second time.
    path.split('/').map(encoded).join('/'),
    query.split('&').toSorted().join('&'),
    headers.join(''),
    names.join(';'),
    sha256(body),
  ].join('\n')
}

const encoded = (text: string): string =>
  encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  )
const sha256 = (data: Buffer | string): string => createHash('sha256').update(data).digest('hex')
const hmac = (key: Buffer | string, data: string): Buffer => createHmac('sha256', key).update(data).digest()
