/** Secrets that could stand in the API's own logs and spans. What programs print never passes through here as a log. */

const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/cfd_[0-9a-f]{40}/g, 'cfd_<redacted>'],
  [/\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,}/gi, '$1 <redacted>'],
  // user:password@ of a URL, as drivers put it into their messages.
  [/(:\/\/[^/\s:@]*):[^/\s@]+@/g, '$1:<redacted>@'],
]

/** `text` without API keys, Authorization values and passwords of URLs. */
export function redactSecrets(text: string): string {
  return SECRETS.reduce((clean, [pattern, replacement]) => clean.replaceAll(pattern, replacement), text)
}
