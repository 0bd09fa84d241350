#include "standins/mps/log.h"

#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

namespace tranche::sim {

void MpsLog::line(std::string_view text) const {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  tm local{};
  ::localtime_r(&now.tv_sec, &local);
  char stamp[40];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &local);
  char head[96];
  std::snprintf(head, sizeof head, "[%s.%03d %s %5d] ", stamp, static_cast<int>(now.tv_usec / 1000), role_.c_str(),
                static_cast<int>(::getpid()));
  std::string whole = head;
  whole += text;
  whole += '\n';
  // A log that cannot be written must not stop the daemon, and the error cannot be reported.
  if (::write(fd_, whole.data(), whole.size()) < 0) return;
}

void MpsLog::lines(std::string_view text) const {
  while (!text.empty()) {
    const auto end = text.find('\n');
    line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace tranche::sim
