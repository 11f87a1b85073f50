/*
 * notify.h - tell a service manager how things are (the protocol of sd_notify(3), without its library)
 */
#ifndef HTH_WIRE_NOTIFY_H
#define HTH_WIRE_NOTIFY_H

/* "READY=1", "STOPPING=1". Does nothing where nobody wants to know ($NOTIFY_SOCKET is not set). Never blocks. */
void hth_notify(const char *state);

#endif
