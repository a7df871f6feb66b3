/** Addresses that results are posted to. */
import { z } from 'zod'

/** Where the result is posted. The addresses behind it are checked when it is called, not here. */
export const callbackUrlSchema = z
  .url({ protocol: /^https?$/, error: 'expected an http or https URL' })
  .max(2048)
  .refine(
    (text) => !/[\s]/.test(text) && isPlainUrl(text),
    'expected a URL without user, password or fragment',
  )
  .refine(isWebPort, 'expected port 80, 443, or one from 1024 on')
  .meta({ example: 'https://example.com/hooks/cofferdam' })

/** Ports below 1024 belong to other protocols, whose servers could misread a POST. */
function isWebPort(text: string): boolean {
  const port = URL.parse(text)?.port ?? ''
  return port === '' || port === '80' || port === '443' || Number(port) >= 1024
}

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && url.username === '' && url.password === '' && url.hash === ''
}
